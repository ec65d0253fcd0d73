// Package httpx holds what every HTTP door of the bridge needs at its edge: a
// server with timeouts and an orderly stop, one log line a request, the checks
// that keep browsers and strangers out, and the shape of JSON answers. It is
// not a framework: it knows no route, no noun and no router. Rule of thumb:
// what two doors would otherwise each write, slightly differently, stands here.
package httpx
