package trust

import "testing"

// TestNetworkNames holds the numbers of linux/magic.h against those of disks.
func TestNetworkNames(t *testing.T) {
	t.Parallel()
	for number, want := range map[int64]string{0x6969: "NFS", 0xff534d42: "CIFS", 0xfe534d42: "SMB", 0x00c36400: "Ceph", 0xef53: "", 0x58465342: "", 0x9123683e: "", 0x01021994: "", 0x794c7630: "", 0x65735546: ""} {
		if got := networks[number]; got != want {
			t.Errorf("%#x is %q, want %q", number, got, want)
		}
	}
	if name := NetworkDisk(t.TempDir()); name != "" {
		t.Logf("the folder for temporary files is on %s", name)
	}
	if name := NetworkDisk("/proc"); name != "" {
		t.Errorf("/proc is %q", name)
	}
}
