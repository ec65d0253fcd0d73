//go:build !failpoint

package failpoint

// Armed tells whether this build can kill itself; false in every release.
const Armed = false

// Here marks a point. It is empty, so that the compiler drops the call.
func Here(string) {}
