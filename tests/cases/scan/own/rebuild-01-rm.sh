# expect: 3:rebuild 4:rebuild 5:rebuild
AITER=$(python3 -c 'import aiter; print(aiter.__path__[0])')
rm -f "$AITER"/jit/module_mla_asm.so
rm -rf $AITER/jit/build
cd /app/aiter && PREBUILD_KERNELS=1 GPU_ARCHS=gfx950 python3 setup.py develop
