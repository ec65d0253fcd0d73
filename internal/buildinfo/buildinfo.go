// Package buildinfo tells from which version of the source a program was built, as the Go toolchain recorded it. It is not a place for
// versions of protocols or schemas. Rule of thumb: no linker flag, so that go build and make build say the same.
package buildinfo

import "runtime/debug"

// Version is the version of the main module: a tag, or the commit with its date in the form of a pseudo-version of Go. It is
// "unknown" when the build did not record it, as with -buildvcs=false or without a git repository.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "unknown"
}
