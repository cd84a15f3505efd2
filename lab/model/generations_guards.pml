/* The bounds, and the guards of the design: each can be taken away by a macro. Part of generations.pml. */

#define REQUESTS 2
#define PAYMENTS 3
#define ATTEMPTS 2 /* of each payment */
#if defined(BROKEN_LIMITS) || defined(EARLY_END) /* the key is used a second time: expired, or deleted */
#define LIVES 2
#else /* and a third time: renewed and used again after deletion, in any order */
#define LIVES 3
#endif

/* The retention is not shorter than the PSP's memory. */
#ifdef EARLY_END
#define RETENTION_OVER (true)
#else
#define RETENTION_OVER memory_over
#endif

/* The fence: what stands in the WHERE of CompleteKeys, ReleaseKey and LoseKey. */
#ifdef FENCE_WITHOUT_GENERATION
#define FENCE (status == in_progress && attempt == lease)
#else
#define FENCE (status == in_progress && attempt == lease && payment == mine)
#endif

/* What the PSP is sent as its key: generation n > 1 has a suffix. */
#ifdef SAME_PSP_KEY
#define PSP_KEY(m) 1
#else
#define PSP_KEY(m) generation[m]
#endif

/* From what a key that was deleted goes on. */
#ifdef NO_TOMBSTONE
#define TOMBSTONE 0
#else
#define TOMBSTONE tombstone
#endif

/* What stands in the WHERE of RetakeKey. */
#ifdef RETAKE_FORGOTTEN
#define MAY_RETAKE (true)
#else
#define MAY_RETAKE (!memory_over)
#endif

#ifdef BROKEN_LIMITS
#define LIMITS_KEPT (false)
#define GRACE_ENDS  (true)
#else
#define LIMITS_KEPT (true)
#define GRACE_ENDS  (sending[payment] == 0 && sent[payment] == 0)
#endif

/* The PSP forgets no key under which something may still come. */
#define QUIET(m, k)    (PSP_KEY(m) != k || (sending[m] == 0 && sent[m] == 0 && (payment != m || memory_over)))
#define FORGETTABLE(k) (QUIET(1, k) && QUIET(2, k) && QUIET(3, k))

/* What stands in the WHERE of ResolveKeys and ReleaseUnknownKey. */
#define SEEN (payment == seen && attempt == tried)

/* What judge is shown (judge.pml). */
#define STATUS(m)     status
#ifdef ANY_GENERATION /* evidence of an older generation counts for the key as it is now */
#define OURS(m)       (status != none && status != expired)
#else
#define OURS(m)       (payment == m && status != none && status != expired)
#endif
#define RESULT(m)     result[m]
#define HELD(m)       dead_letter
#define SHARE_GONE(m) (false)
#define SAME_ATTEMPT  (attempt == lease)
#define GRACE_OVER    (true) /* it asks after that only */
#ifdef LOOKUP_FORGOTTEN
#define MEMORY_OVER   (false)
#else
#define MEMORY_OVER   asked_late
#endif
