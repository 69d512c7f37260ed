/* The program of a pod's sandbox: it holds the pod's namespaces, reaps what is left to it where it is
 * process 1 of a shared PID namespace, and ends when told to. */
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	sigset_t awaited;
	sigemptyset(&awaited);
	sigaddset(&awaited, SIGINT);
	sigaddset(&awaited, SIGTERM);
	sigaddset(&awaited, SIGCHLD);
	/* Blocked, so that a signal between two waits is kept for the next. */
	if (sigprocmask(SIG_BLOCK, &awaited, NULL) != 0)
		return 1;
	for (;;) {
		int signal;
		if (sigwait(&awaited, &signal) != 0)
			return 1;
		if (signal != SIGCHLD)
			return 0;
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
}
