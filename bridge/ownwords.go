package bridge

// Words is text that the bridge itself says to an agent, outside of any bar. Only
// package words makes it of anything but a constant, so that what others wrote
// cannot stand in it as if the bridge had said it. A conversion elsewhere is a
// mistake, which a guard finds.
type Words string
