__version__ = '0.27.1'
__commit_id__ = 'g6e448d0ea'
