package store

// ofdSetLock is F_OFD_SETLK of <sys/fcntl.h>, which x/sys does not have.
const ofdSetLock = 90
