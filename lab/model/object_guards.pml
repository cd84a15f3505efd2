/* The bounds, and the guards of the design: each guard can be taken away by a macro. Part of object.pml. */

#define REQUESTS 2 /* the client's first request and its retry, in parallel or not */
#ifndef FORGETS
#define FORGETS 1 /* how often the PSP forgets a create key */
#endif

/* A resolver crashes, or gets no answer, once without a dead letter, and then once for each. Two resolvers at the same time get every answer:
 * otherwise there are too many states. */
#ifdef TWO_RESOLVERS
#define RESOLVERS 2
#define MAY_FAIL  (false)
#else
#define RESOLVERS 1
#define MAY_FAIL  (!repeated || !dead_letter)
#endif

/* What stands in the WHERE of CompleteKeys, ReleaseKey and LoseKey. */
#define OWNS (status == in_progress && attempt == lease)

/* What stands in the WHERE of RememberObject. */
#ifdef REMEMBER_NOT_FENCED /* the payment's row alone */
#define MAY_REMEMBER ((status == in_progress || status == unknown) && (object == 0 || object == id))
#else
#define MAY_REMEMBER (OWNS && object == 0)
#endif

#ifdef SAME_OBJECT_AGAIN /* the create key is that of the key, not of the attempt */
#define CREATE_KEY(n) 1
#else
#define CREATE_KEY(n) (n)
#endif

/* What proves that nothing was executed, and nothing will be. */
#ifdef NO_CANCEL
#define UNSENT_IS_PROOF (true)
#else
#define UNSENT_IS_PROOF (false)
#endif
#define NOTHING_EXECUTED(v) (v == not_executed || v == cancelled || v == refused || (v == unsent && UNSENT_IS_PROOF))

/* A search by the key, instead of reading and cancelling the object. It lags, so it may find nothing whatever has happened. */
#ifdef NOT_FOUND_IS_PROOF
#define SEARCHES (true)
#else
#define SEARCHES (false)
#endif

/* What judge is shown (judge.pml). Time proves nothing here: the object is cancelled, or it is not. */
#define STATUS(m)     status
#define OURS(m)       (true)
#define RESULT(m)     result
#define HELD(m)       dead_letter
#define SHARE_GONE(m) (false)
#define SAME_ATTEMPT  (attempt == lease)
#define GRACE_OVER    (false)
#define MEMORY_OVER   (false)
