/* first LIFETIME

The first process of a container: see ../docker/processes.py for what the signal does and what its name says.

reached

What an ENTRYPOINT is told to run, which has done its work then: it does nothing. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

#include "sys.h"

enum { ENDED_DIGIT = 6, MASK_SIZE = 8 };

int first(char **arguments)
{
    struct timespec lifetime = {number(*arguments), 0};
    long awaited = 1L << (SIGUSR1 - 1), told;
    char name[] = "bench-0";

    be_out_of_reach();
    sys(prctl, PR_SET_NAME, name);
    while ((told = sys(rt_sigtimedwait, &awaited, 0, &lifetime, MASK_SIZE)) != -EAGAIN) {
        if (told < 0)
            continue;
        kill_all_others(LONG_MAX);
        name[ENDED_DIGIT] ^= 1;
        sys(prctl, PR_SET_NAME, name);
    }
    return 0;
}

int reached(char **arguments)
{
    (void)arguments;
    be_out_of_reach();
    for (;;)
        sys(ppoll, 0, 0, 0, 0, 0);
}
