// Launches the assembly kernels.
#include <cstdint>

constexpr int kHeads = 16;
constexpr int kBlock = 64;

int32_t offset(int32_t block, int32_t stride)
{
    return block * stride;
}

void launch(const void* query, int heads)
{
    if (heads != kHeads) {
        return;
    }

    run(query, heads);
}
