# expect: 6:overwrite
import shutil
from importlib.resources import files

target = files("vllm") / "model_executor/layers/fused_moe/configs"
shutil.copy("E=256,N=512.json", target / "E=256,N=512.json")
