/*
 * The claims. Part of key.pml and object.pml. Each has a name of its own, which is what pan prints. They never turn false in a state that is
 * kept. docs/correctness.md says what they mean. ONLY_I1 leaves the others out.
 */
bool I1_charged_once = true;
bool I2_nothing_left_open = true;
bool I3_completed_is_final = true;
bool I3_success_was_charged = true;
bool I4_books_equal_ledger = true;
bool I6_attempts_never_overlap = true;
bool released_is_not_charged = true;
bool attempt_can_execute = true; /* of object.pml: what an owner is given to execute was not cancelled before */

byte released = 0; /* the last attempt of which was said: not executed */

#define CLAIM_I1(holds) I1_charged_once = (holds); assert(I1_charged_once)
#ifdef ONLY_I1
#define CLAIM(name, holds) skip
#else
#define CLAIM(name, holds) name = (holds); assert(name)
#endif

#define ON_ITS_WAY(i) (way[i] == decided || way[i] == sent)
