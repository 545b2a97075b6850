// Of a design that holds mutants behind an input `mutant`: the environment variable BERT2RTL_MUTANT chooses one.

#pragma once

#include <cstdlib>

template <typename Top> auto choose_mutant(Top& top, int) -> decltype(top.mutant, void()) {
    const char* number = std::getenv("BERT2RTL_MUTANT");
    top.mutant = number ? std::atoi(number) : 0;
}
template <typename Top> void choose_mutant(Top&, long) {}
