// Package web is the operator's page: what agents do, and what waits for a person,
// for a browser. It asks and decides by the operator's API alone, as any script
// could, and has no rules of its own. Rule of thumb: the server makes all HTML, and
// a page without its script can still decide everything.
package web
