/*
 * container-disk: runs beside a disk that came as a container image. It does nothing but keep that
 * container, and with it the image's files, alive: KubeVirt finds the container by the process that
 * listens on <copy-path>.sock, and reads the disk from its root. It runs inside the disk's own image,
 * which holds no libraries, so it is linked statically.
 *
 *   container-disk --copy-path PATH    listen on PATH.sock until that file or this process is told to go
 *   container-disk --no-op             exit at once (makes the kubelet pull the image)
 */
#include <libgen.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static struct sockaddr_un address = { .sun_family = AF_UNIX };

static void leave(int signal_number)
{
	(void)signal_number;
	unlink(address.sun_path);
	_exit(0);
}

static int fail(const char *what)
{
	perror(what);
	return 1;
}

int main(int argc, char **argv)
{
	const char *path = NULL;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--no-op") || !strcmp(argv[i], "-n"))
			return 0;
		if ((!strcmp(argv[i], "--copy-path") || !strcmp(argv[i], "-c")) && i + 1 < argc)
			path = argv[++i];
		else if (!strncmp(argv[i], "--copy-path=", 12))
			path = argv[i] + 12;
		else
			path = NULL, i = argc;
	}
	if (!path || snprintf(address.sun_path, sizeof(address.sun_path), "%s.sock", path) >= (int)sizeof(address.sun_path)) {
		fprintf(stderr, "usage: container-disk --copy-path PATH | --no-op (PATH has at most %zu bytes)\n",
			sizeof(address.sun_path) - sizeof(".sock"));
		return 1;
	}

	char *copy = strdup(path);
	mkdir(copy ? dirname(copy) : ".", 0777); /* most often there already; if it cannot be made, bind says so */
	free(copy);

	signal(SIGTERM, leave);
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (listener < 0)
		return fail("socket");
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) < 0)
		return fail(address.sun_path);
	if (listen(listener, 50) < 0)
		return fail("listen");

	/* The signal may come late or not at all; the socket's removal is the other way to say goodbye. */
	struct stat status;
	while (stat(address.sun_path, &status) == 0) {
		struct pollfd wait = { .fd = listener, .events = POLLIN };
		int connection;
		poll(&wait, 1, 1000);
		while ((connection = accept(listener, NULL, NULL)) >= 0)
			close(connection);
	}
	return 0;
}
