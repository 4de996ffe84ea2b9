class Fake: pass
