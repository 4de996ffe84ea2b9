def topk_softmax(*a):
    raise NotImplementedError
