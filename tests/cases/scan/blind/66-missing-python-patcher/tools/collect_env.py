import json
import platform

import torch

print(json.dumps({"python": platform.python_version(), "torch": torch.__version__, "hip": torch.version.hip}))
