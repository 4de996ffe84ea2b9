def rope_fwd(x, freqs):
    return x * freqs
