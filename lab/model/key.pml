/*
 * The life of one key, in one generation: who may write it, when, and what the PSP does meanwhile.
 *
 * Every atomic block is one statement of db/queries/idempotency.sql, or one thing that the world does. Between two of them anything else may
 * happen, for as long as it likes: that is what a crash, a pause, a slow network and a second instance come to.
 *
 * Time passes in ticks, and only where something waits for it. Three limits are what the grace period is made of (ADR 0035):
 *   CHECK   an owner that has held its lease for longer does not send (a third of the lease)
 *   STALL   how long an owner may be paused between that decision and the send (a lease)
 *   LATE    how long after the send the PSP may still execute it (PSP_LATE_LIMIT)
 * The first is ours. The other two are promises of the machine and of the PSP, and there are two worlds: one in which they are kept, and,
 * with -DBROKEN_LIMITS, one in which a send and a charge may come at any time. In that one "not found" proves nothing, and the design still has
 * to charge once and to find out.
 *
 * Each guard of the design is a macro in guards.pml and can be taken away: spin -DNO_FENCE, and so on. variants.go lists which claim
 * breaks then; claims.pml has the claims.
 */

#include "guards.pml"

mtype = { none, in_progress, completed, failed_retryable, unknown, expired, /* statuses; none also where there is no answer */
          success, declined, not_executed, cancelled,             /* outcomes; unknown is one, too */
          reserved, decided, sent, over };                        /* how far an attempt has come */

/* The row. */
mtype status = none;
mtype result = none;  /* the stored response */
byte attempt = 0;
byte lease_age = 0;   /* in ticks, up to LEASE */
byte unknown_age = 0; /* in ticks, up to WINDOW */
bool dead_letter = false;  /* an open dead letter about the key */

/* What is on its way from us to the PSP and back, by request. */
mtype way[REQUESTS] = none;
mtype answer[REQUESTS] = none;
byte since[REQUESTS] = 0;  /* ticks since it came so far */
byte number[REQUESTS] = 0; /* its attempt */
byte begun = 0;            /* requests that have come; they are alike, so they come in order */

/* The PSP. */
mtype verdict = none;
byte charges = 0;
byte hooks = 0; /* webhooks that will be delivered */

#include "claims.pml"

/* What else is written when the key moves, and what must hold then. The edge is the query's, which follows (edges.pml). Guards are the callers'. */

inline take(i) {
    printf("request %d: takes the key as attempt %d\n", i, attempt + 1);
    CLAIM(I6_attempts_never_overlap, !LIMITS_KEPT || !(ON_ITS_WAY(0) || ON_ITS_WAY(1) || ON_ITS_WAY(2)));
    CLAIM(I3_completed_is_final, status != completed);
    attempt++; lease_age = 0; unknown_age = 0;
    lease = attempt; number[i] = attempt; way[i] = reserved; since[i] = 0
}

inline complete(v) {
    CLAIM(I3_completed_is_final, status != completed || result == v);
    CLAIM(I3_success_was_charged, v != success || charges > 0);
    result = v; lease_age = 0; unknown_age = 0
}

inline release() {
    CLAIM(I3_completed_is_final, status != completed);
    CLAIM(released_is_not_charged, !LIMITS_KEPT || charges == 0);
    released = attempt; lease_age = 0; unknown_age = 0
}

inline lose() {
    CLAIM(I3_completed_is_final, status != completed);
    lease_age = 0; unknown_age = 0
}

/* What judge says about evidence of what the PSP did. The edge starts from the state as it was seen. A writer that finds the state changed
 * looks again: both together are one step. */
inline follow(v) {
    if
    :: step == completed -> printf("    the key is completed: %e\n", v); complete(v); ResolveKeys(status)
    :: opens -> dead_letter = true; printf("    contradicts what was answered: dead letter\n")
    :: else -> printf("    it is known already\n")
    fi;
    JUDGED
}

/* A request, and if it wins the key, the owner of an attempt. It may crash wherever it is. */
active [REQUESTS] proctype request() {
    byte lease = 0, seen = 0;
    mtype got = none;

end_unused:
    atomic {
        begun == _pid ->
        if
        :: begun++
        :: begun = REQUESTS + 1; goto gone /* the client asks no more */
        fi;
        if
        :: status == none -> take(_pid); ReserveKeys(status); goto check
        :: status == failed_retryable -> seen = attempt
        :: status == in_progress && lease_age >= LEASE ->
#ifdef RETAKE_EXPIRED
            take(_pid); RetakeKey(status); goto check
#else
            printf("request %d: meets a lease that is over, the key is unknown\n", _pid); lose(); ExpireLease(status); goto gone
#endif
        :: else -> printf("request %d: is answered from the row, %e\n", _pid, status); goto gone
        fi
    }
    atomic { /* of several retries, the attempt as it was read lets one through */
        if
        :: status == failed_retryable && attempt == seen -> take(_pid); RetakeKey(status)
        :: else -> goto gone
        fi
    }
check: /* crash window 2: reserved, not sent */
    atomic {
        if
        :: !PAUSED -> way[_pid] = decided; since[_pid] = 0; printf("owner %d: decides to send attempt %d\n", _pid, lease)
        :: PAUSED -> way[_pid] = over; got = not_executed; printf("owner %d: was paused, does not send\n", _pid); goto write
        :: way[_pid] = over; printf("owner %d: crashes\n", _pid); goto gone
        fi
    }
    atomic {
        if
        :: way[_pid] = sent; since[_pid] = 0; printf("owner %d: sends attempt %d\n", _pid, lease)
        :: way[_pid] = over; got = not_executed; printf("owner %d: gets no connection\n", _pid); goto write
        :: way[_pid] = over; printf("owner %d: crashes before the send\n", _pid); goto gone
        fi
    }
    atomic { /* crash window 3: sent, not written */
        if
        :: answer[_pid] != none -> got = answer[_pid]; printf("owner %d: is answered %e\n", _pid, got)
        :: got = unknown; printf("owner %d: gives up waiting for the answer\n", _pid)
        :: printf("owner %d: crashes after the send\n", _pid); goto gone
        fi
    }
write:
    atomic {
        if
        :: printf("owner %d: writes nothing: it crashes, or its guard finds no row\n", _pid)
        :: FENCE -> judge_reply(0, got);
            if
            :: step == completed -> printf("owner %d: completes the key: %e\n", _pid, got); complete(got); CompleteKeys(status)
            :: step == failed_retryable -> printf("owner %d: releases the key\n", _pid); release(); ReleaseKey(status)
            :: step == unknown -> printf("owner %d: gives the key up as unknown\n", _pid); lose(); LoseKey(status)
            fi;
            JUDGED
        :: !FENCE && got == success ->
            printf("owner %d: has lost its lease, brings its success as evidence\n", _pid); judge_late_reply(0, success); follow(success)
        fi
    }
gone:
    atomic { lease = 0; seen = 0; got = none }
}

/* The PSP executes what it was sent, or loses it; once for a key, whatever comes after. It charges when no owner waits any more, too. */
active proctype psp() {
    byte i = 0;
    mtype said = none;

end:do
    :: atomic {
        if
        :: way[0] == sent -> i = 0
        :: way[1] == sent -> i = 1
        :: way[2] == sent -> i = 2
        fi;
        way[i] = over; since[i] = 0;
        if
        :: printf("PSP: never sees attempt %d\n", number[i])
        :: REMEMBERED -> answer[i] = verdict; printf("PSP: knows the key, answers attempt %d: %e\n", number[i], verdict)
        :: !REMEMBERED ->
            if
            :: said = success; charges++; printf("PSP: charges attempt %d\n", number[i]);
                CLAIM_I1(charges <= 1);
                CLAIM(released_is_not_charged, !LIMITS_KEPT || number[i] > released)
            :: said = declined; printf("PSP: declines attempt %d\n", number[i])
            fi;
            answer[i] = said;
            if
            :: verdict != success -> verdict = said
            :: else
            fi;
            if /* its webhook is lost, or comes once or twice, at any time */
            :: hooks = 0; printf("PSP: the webhook will be lost\n")
            :: hooks = 1
            :: hooks = 2
            fi
        fi;
        i = 0; said = none
    }
    od
}

active proctype webhook() {
end:do
    :: atomic { hooks > 0 -> hooks--; printf("webhook: says %e\n", verdict); judge_record(0, verdict); follow(verdict) }
    od
}

#ifndef NO_SWEEPER
active proctype sweeper() {
end:do
    :: atomic { status == in_progress && lease_age >= LEASE -> printf("sweeper: the lease is over, the key is unknown\n"); lose(); SweepLeases(status) }
    od
}
#endif

/* The resolver: looks at the key, asks the PSP, writes what that proves. It asks when there is something to learn, and once too early. A lookup
 * that fails calls an operator at once; the budget of lookups only puts that off. */
#ifndef NO_POLLER
active proctype poller() {
    byte seen = 0;
    bool asked_after = false, early = true;
    mtype found = none;

end:do
    :: atomic {
        status == unknown && (verdict != none || (!dead_letter && (unknown_age >= WINDOW || early))) ->
        seen = attempt; asked_after = (unknown_age >= WINDOW); found = verdict;
        if
        :: unknown_age < WINDOW -> early = false
        :: else
        fi;
        if
        :: found != none -> printf("poller: asks, the PSP says %e\n", found)
        :: found == none -> printf("poller: asks, the PSP has nothing\n")
        :: !dead_letter -> dead_letter = true; found = unknown; printf("poller: asks, the PSP does not answer: dead letter\n")
        fi
       }
       atomic {
        if
        :: status == unknown && attempt == seen && (found == success || found == declined) -> judge_record(0, found); follow(found)
        :: status == unknown && attempt == seen && found == none -> judge_nothing(0, not_executed);
            if
            :: step == failed_retryable -> printf("poller: releases the key, nothing was executed\n"); release(); ReleaseUnknownKey(status)
            :: else
            fi;
            JUDGED
        :: else
        fi;
        seen = 0; asked_after = false; found = none
       }
    od
}
#endif

/* The ledger scan is for what the others have missed, and leaves alone what somebody is at work on. */
#ifndef NO_SCAN
active proctype scan() {
end:do
    :: atomic {
        verdict != none && (status == failed_retryable || (status == unknown && unknown_age >= WINDOW)) ->
        printf("scan: finds %e in the ledger\n", verdict); judge_record(0, verdict); follow(verdict)
    }
    od
}
#endif

/* Resolves one dead letter, or leaves it open for good. "Not executed" asks the PSP first, and waits for the grace period as a lookup does. */
active proctype operator() {
end:
    atomic {
        dead_letter && status == unknown ->
        if
        :: verdict != none -> printf("operator: executed\n"); complete(verdict); ResolveKeys(status); dead_letter = false
        :: verdict == none && unknown_age >= WINDOW -> printf("operator: not executed\n"); release(); ReleaseUnknownKey(status); dead_letter = false
        :: true
        fi
    }
}

#define AGES(age, limit) if :: age < limit -> age++ :: else fi
#define AGES_WAY(i) if :: TIMED(i) -> since[i]++ :: else fi

active proctype clock() {
end:do
    :: atomic {
        WITHIN(0) && WITHIN(1) && WITHIN(2) &&
        ((status == in_progress && lease_age < LEASE) || (status == unknown && unknown_age < WINDOW) ||
         TIMED(0) || TIMED(1) || TIMED(2)) ->
        if
        :: status == in_progress -> AGES(lease_age, LEASE)
        :: status == unknown -> AGES(unknown_age, WINDOW)
        :: else
        fi;
        AGES_WAY(0); AGES_WAY(1); AGES_WAY(2);
        printf("clock: a tick\n")
    }
    od
}

/* When nothing can happen any more. That it comes to this, always, is what pan -l says of the same model: no run goes in circles. */
active proctype rest() {
    timeout ->
    atomic {
        printf("all is quiet: the key is %e, charged %d times\n", status, charges);
        CLAIM(I2_nothing_left_open, status == none || status == completed || status == failed_retryable || dead_letter);
        CLAIM(I4_books_equal_ledger, dead_letter || (verdict == none && result == none) || (status == completed && result == verdict))
    }
}
