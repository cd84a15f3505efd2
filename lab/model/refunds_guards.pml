/* The bounds, and the guards of the design: each can be taken away by a macro. Part of refunds.pml. */

#define REFUNDS  2
#define ATTEMPTS 2 /* of each refund */
#define CHARGED  2 /* each refund asks for all of it, or for a half */

/* What the refunds hold of the payment, as TallyRefunds adds it up. */
#define HELD_SHARES (amount[0] * share[0] + amount[1] * share[1])

#define FENCE (status[_pid] == in_progress && attempt[_pid] == lease)

#ifdef NO_DEDUP /* a refund is sent without a key */
#define REMEMBERED(i) (false)
#else
#define REMEMBERED(i) (verdict[i] != none)
#endif

#ifdef BROKEN_LIMITS
#define LIMITS_KEPT   (false)
#define GRACE_ENDS(i) (true)
#else
#define LIMITS_KEPT   (true)
#define GRACE_ENDS(i) (sending[i] == 0 && sent[i] == 0)
#endif

/* What judge is shown (judge.pml). */
#define STATUS(m)     status[m]
#define OURS(m)       (status[m] != none)
#define RESULT(m)     result[m]
#define HELD(m)       (false)
#ifdef SHARE_NOT_ASKED
#define SHARE_GONE(m) (false)
#else
#define SHARE_GONE(m) (!share[m] && HELD_SHARES + amount[m] > CHARGED)
#endif
#define SAME_ATTEMPT  (attempt[_pid] == lease)
#define GRACE_OVER    (true) /* it asks after that only */
#define MEMORY_OVER   (false) /* generations.pml is about that */
