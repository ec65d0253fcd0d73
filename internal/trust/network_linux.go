package trust

import "golang.org/x/sys/unix"

// networks are file systems of other machines by their number (linux/magic.h).
var networks = map[int64]string{
	0x6969: "NFS", 0x517b: "SMB", 0xff534d42: "CIFS", 0xfe534d42: "SMB", 0x5346414f: "AFS", 0x6b414653: "AFS", 0x73757245: "Coda", 0x564c: "NCP",
	0x00c36400: "Ceph", 0x0bd00bd0: "Lustre", 0x47504653: "GPFS", 0x013661: "GFS", 0x01161970: "GFS2", 0x7461636f: "OCFS2",
}

// NetworkDisk names the network file system of a folder, "" for another one.
func NetworkDisk(dir string) string {
	var stat unix.Statfs_t
	if unix.Statfs(dir, &stat) != nil {
		return ""
	}
	return networks[int64(stat.Type)&0xffffffff] //nolint:unconvert // narrower on some platforms
}
