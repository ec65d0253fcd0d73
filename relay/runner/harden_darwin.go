package runner

// closeInherited has nothing to do: the system offers no call for it that is safe in a running process.
func closeInherited() {}

// hideMemory has nothing to do: the system protects what is signed, which is for whoever builds the binary.
func hideMemory() {}
