// Package failpoint names the places at which a proof kills the process. In a
// release Here does nothing and costs nothing; only a build with the tag
// "failpoint" can kill itself, so that no variable in somebody's environment
// can make a released program do it. It is no fault injection: it changes no
// answer and no data. Rule of thumb: a point on each side of whatever makes
// something durable or visible outside.
package failpoint
