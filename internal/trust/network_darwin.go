package trust

import "golang.org/x/sys/unix"

// networks are file systems of other machines, as mount(8) calls them.
var networks = map[string]string{"nfs": "NFS", "smbfs": "SMB", "afpfs": "AFP", "webdav": "WebDAV"}

// NetworkDisk names the network file system of a folder, "" for another one.
func NetworkDisk(dir string) string {
	var stat unix.Statfs_t
	if unix.Statfs(dir, &stat) != nil {
		return ""
	}
	return networks[unix.ByteSliceToString(stat.Fstypename[:])]
}
