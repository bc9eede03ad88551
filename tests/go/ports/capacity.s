// Lets the compiler accept functions without a body, which the linker finds.
