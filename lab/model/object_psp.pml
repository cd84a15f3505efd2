/*
 * The PSP that makes objects. Part of object.pml.
 *
 * A request that is answered has its effect and its answer in one step. A confirmation or a cancellation that gets no answer is on its way: it
 * arrives at any later time, or never (object_network.pml). A creation that gets no answer has made the object, or never will: an object that is
 * made later is one that nobody remembers.
 */

#define ATTEMPTS REQUESTS
#define OBJECTS  3 /* one of each attempt, and one more after a create key is forgotten */

mtype state[OBJECTS + 1] = none;  /* by object; there is no object 0 */
byte under[ATTEMPTS + 1] = 0;     /* the object that the PSP remembers, by create key */
byte made = 0, forgets = 0, charges = 0;
mtype hook = none;                /* what the webhook will say that will be delivered */

/* What is on its way. */
byte confirming[ATTEMPTS + 1] = 0;    /* the object, by attempt */
bool cancelling[OBJECTS + 1] = false; /* by object */

#define EXECUTABLE(n) (state[confirming[n]] == unsent)

/* The PSP knows nothing under the create key of attempt n, or forgets what it knows. */
inline forgotten(n) {
    if
    :: under[CREATE_KEY(n)] == 0
    :: under[CREATE_KEY(n)] != 0 && forgets < FORGETS -> forgets++; under[CREATE_KEY(n)] = 0; printf("PSP: forgets a create key\n")
    fi
}

/* The PSP answers the same to the same create key, also a refusal: that is an object here that can never be executed. */
inline create(n, made_id) {
    if
    :: under[CREATE_KEY(n)] != 0
    :: forgotten(n); made++; under[CREATE_KEY(n)] = made;
        if
        :: state[made] = unsent
        :: state[made] = refused
        fi
    fi;
    made_id = under[CREATE_KEY(n)]
}

/* An object is executed once, whatever comes after. */
inline execute(which, n) {
    if
    :: state[which] == unsent ->
        if
        :: state[which] = success; charges++; printf("PSP: charges object %d, for attempt %d\n", which, n);
            CLAIM_I1(charges <= 1);
            CLAIM(released_is_not_charged, n > released)
        :: state[which] = declined; printf("PSP: declines object %d, for attempt %d\n", which, n)
        fi;
        if /* its webhook is lost, or comes at any time */
        :: hook = state[which]
        :: true
        fi
    :: else -> printf("PSP: executes object %d no more, it is %e\n", which, state[which])
    fi
}

inline cancel(which) {
    if
    :: state[which] == unsent -> state[which] = cancelled
    :: else
    fi
}
