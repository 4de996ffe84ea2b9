# expect: nothing
import sys


class Tracer:
    def find_spec(self, name, path=None, target=None):
        return None


sys.meta_path.append(Tracer())
