def on_gfx950():
    return True
