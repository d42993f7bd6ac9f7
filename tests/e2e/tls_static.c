/*
 * tls_static.c - a server whose OpenSSL is linked in: nobody can read it for us
 *
 *	tls_static KEY CERTIFICATE
 *
 * Prints its port.  Each connection is a thread that answers every request with
 * a stream: the head at once, after a second an event every 20 ms, 100 of them.
 */
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define EVENTS 100
#define FIRST_MS 1000
#define GAP_MS 20

static SSL_CTX *context;

static void pause_ms(long ms)
{
	struct timespec t = { .tv_sec = ms / 1000,
			      .tv_nsec = ms % 1000 * 1000000 };

	nanosleep(&t, NULL);
}

static bool say(SSL *ssl, const char *text)
{
	return SSL_write(ssl, text, (int)strlen(text)) > 0;
}

/* Up to the end of a head; requests have no body. */
static bool hear(SSL *ssl)
{
	char b[4096];
	int n = 0, got;

	while ((got = SSL_read(ssl, b + n, (int)sizeof(b) - 1 - n)) > 0) {
		n += got;
		b[n] = '\0';
		if (strstr(b, "\r\n\r\n"))
			return true;
	}
	return false;
}

static bool answer(SSL *ssl)
{
	bool ok = say(ssl, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream"
			   "\r\ntransfer-encoding: chunked\r\n\r\n");

	pause_ms(FIRST_MS);
	for (int i = 0; ok && i < EVENTS; i++) {
		ok = say(ssl, "1d\r\ndata: {\"text\": \"a token\"}  \n\n\r\n");
		pause_ms(GAP_MS);
	}
	return ok && say(ssl, "0\r\n\r\n");
}

static void *serve(void *arg)
{
	int fd = (int)(long)arg;
	SSL *ssl = SSL_new(context);

	if (ssl && SSL_set_fd(ssl, fd) && SSL_accept(ssl) == 1)
		while (hear(ssl) && answer(ssl))
			;
	SSL_free(ssl);
	close(fd);
	return NULL;
}

int main(int argc, char **argv)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd;
	socklen_t n = sizeof(a);
	pthread_t thread;

	signal(SIGPIPE, SIG_IGN);
	context = SSL_CTX_new(TLS_server_method());
	if (argc != 3 || !context ||
	    SSL_CTX_use_PrivateKey_file(context, argv[1], SSL_FILETYPE_PEM) !=
		    1 ||
	    SSL_CTX_use_certificate_file(context, argv[2], SSL_FILETYPE_PEM) !=
		    1)
		return 2;
	if (bind(listener, (struct sockaddr *)&a, n) || listen(listener, 64) ||
	    getsockname(listener, (struct sockaddr *)&a, &n))
		return 1;
	printf("%u\n", ntohs(a.sin_port));
	fflush(stdout);
	while ((fd = accept(listener, NULL, NULL)) >= 0)
		if (!pthread_create(&thread, NULL, serve, (void *)(long)fd))
			pthread_detach(thread);
	return 0;
}
