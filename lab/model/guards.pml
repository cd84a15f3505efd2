/* The limits of time, and the guards of the design: each can be taken away by a macro. Part of key.pml. */

#define REQUESTS 3 /* the client's first request and its retries, in parallel or not */
#define LEASE    3
#define CHECK    1
#define STALL    LEASE
#define LATE     1

/* The grace period, counted from the moment at which the key became unknown. */
#if defined(NO_WINDOW)
#define WINDOW 0
#elif defined(SHORT_WINDOW) /* longer than the PSP's part of it, but no lease */
#define WINDOW (LATE + 1)
#else
#define WINDOW (LEASE + LATE)
#endif

/* The fence: what stands in the WHERE of CompleteKeys, ReleaseKey and LoseKey. */
#if defined(NO_FENCE)
#define FENCE (true)
#elif defined(NO_ATTEMPT) /* the status alone */
#define FENCE (status == in_progress)
#else
#define FENCE (status == in_progress && attempt == lease)
#endif

#ifdef NO_PAUSE_CHECK
#define PAUSED (false)
#else
#define PAUSED (since[_pid] > CHECK)
#endif

#ifdef JUDGED_WHEN_WRITTEN /* the window is held against the time of the write, not of the question */
#define PROVEN (unknown_age >= WINDOW)
#else
#define PROVEN (asked_after)
#endif

#ifdef NO_DEDUP
#define REMEMBERED (false)
#else
#define REMEMBERED (verdict != none)
#endif

#ifdef BROKEN_LIMITS
#define LIMITS_KEPT (false)
#define WITHIN(i)   (true)
#define TIMED(i)    (way[i] == reserved && since[i] <= CHECK)
#else
#define LIMITS_KEPT (true)
/* Time stands still for a process at its limit, until it has done what it must do by then. */
#define WITHIN(i)   (!(way[i] == decided && since[i] >= STALL) && !(way[i] == sent && since[i] >= LATE))
#define TIMED(i)    ((way[i] == reserved && since[i] <= CHECK) || way[i] == decided || way[i] == sent)
#endif

/* What judge is shown (judge.pml). This model has one payment, and its key is never another's. */
#define STATUS(m)     status
#define OURS(m)       (true)
#define RESULT(m)     result
#define HELD(m)       dead_letter
#define SHARE_GONE(m) (false)
#define SAME_ATTEMPT  (attempt == lease)
#define GRACE_OVER    PROVEN
#define MEMORY_OVER   (false) /* generations.pml is about that */
