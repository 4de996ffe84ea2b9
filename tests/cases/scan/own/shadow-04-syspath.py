# expect: 3:shadow
import sys
sys.path.insert(0, "/workspace/sglang-fork/python")
