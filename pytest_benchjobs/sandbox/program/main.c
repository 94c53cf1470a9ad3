/* The program of ours inside containers. Its first argument says what it is to be; a mode is a file of that name. */
#include "tree.h"

int first(char **arguments), reached(char **arguments), door(char **arguments), relay(char **arguments), rules(char **arguments);
int serve(char **arguments), bench_run(char **arguments), end(char **arguments), signal_group(char **arguments);
int attach(char **arguments), processes(char **arguments), variables(char **arguments), print(char **arguments);
int reach(char **arguments), remove_all(char **arguments);
int walk(char **arguments), measure(char **arguments), digest(char **arguments), pack(char **arguments), unpack(char **arguments);

static const struct mode {
    const char *name;
    int (*run)(char **arguments);
} modes[] = {{"first", first}, {"reached", reached}, {"door", door}, {"relay", relay}, {"rules", rules}, {"serve", serve},
             {"attach", attach}, {"variables", variables}, {"print", print}, {"processes", processes},
             {"reach", reach}, {"remove", remove_all}, {"end", end},
             {"signal", signal_group}, {"walk", walk}, {"measure", measure}, {"digest", digest}, {"pack", pack}, {"unpack", unpack}};

/* Begins here, with what the kernel has put on the stack: the number of arguments, they, and the environment. */
__attribute__((used, noreturn)) void start(long *stack)
{
    char **arguments = (char **)stack + 1;
    int status = 2;
    environment = arguments + *stack + 1;
    if (*stack > 0 && !strcmp(last_part(arguments[0]), "bench-run"))
        status = bench_run(arguments + 1);
    for (size_t at = 0; *stack > 1 && at < sizeof modes / sizeof *modes; at++)
        if (!strcmp(arguments[1], modes[at].name))
            status = modes[at].run(arguments + 2);
    sys(exit_group, status);
    __builtin_unreachable();
}
