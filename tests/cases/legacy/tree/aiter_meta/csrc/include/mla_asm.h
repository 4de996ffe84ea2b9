#pragma once

void launch(const void* query, int heads);
int run(const void* query, int heads);
