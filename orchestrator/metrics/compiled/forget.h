/* Undefines what belongs to one instruction set. */

#undef ISA
#undef WIDTH
#undef TARGET
#undef V
#undef U
#undef REGISTERS
#undef EACH
#undef INLINE
