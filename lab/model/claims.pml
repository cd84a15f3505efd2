/*
 * The claims. Part of each model. Each has a name of its own, which is what pan prints. They never turn false in a state that is kept.
 * docs/correctness.md says what they mean. ONLY_I1 leaves the others out.
 */
bool I1_charged_once = true;
bool I2_nothing_left_open = true;
bool I3_completed_is_final = true;
bool I3_success_was_charged = true;
bool I4_books_equal_ledger = true;
bool I6_attempts_never_overlap = true;
bool released_is_not_charged = true;
bool edge_is_listed = true;      /* a design moves a key only along the edges of docs/state_machine.md */
bool answer_is_own = true;        /* of generations.pml: the PSP answers about the payment that was sent */
bool refunds_within_payment = true; /* of refunds.pml: never more than was charged, in our books, and at the PSP while limits are kept */
bool attempt_can_execute = true; /* of object.pml: what an owner is given to execute was not cancelled before */

byte released = 0; /* the last attempt of which was said: not executed */

#define CLAIM_I1(holds) I1_charged_once = (holds); assert(I1_charged_once)
#ifdef ONLY_I1
#define CLAIM(name, holds) skip
#else
#define CLAIM(name, holds) name = (holds); assert(name)
#endif

/* A model without one of the guards may leave the edges: its own claim says what is wrong with that. */
#ifdef DESIGN
#define NOT_LISTED CLAIM(edge_is_listed, false)
#else
#define NOT_LISTED skip
#endif

/* pan says which edges it has taken. This is no part of a state, so it costs none. */
#define TOOK(edge) c_code { static int told; if (!told) { told = 1; printf("took %s\n", edge); } }

#include "edges.pml"

/* What judge says. Only within one atomic block: none and false between two of them. */
mtype step = none;
bool opens = false;
#define JUDGED step = none; opens = false

#include "judge.pml"

#define ON_ITS_WAY(i) (way[i] == decided || way[i] == sent)
