# expect: 4:download
import urllib.request, aiter_meta, os

urllib.request.urlretrieve("https://example.com/x.co", os.path.join(os.path.dirname(aiter_meta.__file__), "hsa/gfx950/x.co"))
