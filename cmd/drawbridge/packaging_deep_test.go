//go:build deep

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// TestRelease: two clones in different folders make the same files, which are installed as docs/how-to/install.md says, and run.
func TestRelease(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: packages and images are made for Linux, and this test runs what is in them")
	}
	page, err := os.ReadFile("../../docs/how-to/install.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile("(?s)## From an archive\n\n```\n(.*?)```").FindSubmatch(page)
	if lines == nil {
		t.Fatal("the page has no lines to install an archive")
	}
	home := t.TempDir()
	shell := func(dir, line string) string {
		t.Helper()
		cmd := exec.Command("sh", "-euc", line)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+home, "GOMODCACHE="+goEnv(t, "GOMODCACHE"), "GOCACHE="+goEnv(t, "GOCACHE"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
		return string(out)
	}
	var sums [2]string
	clones := [2]string{filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "another-folder")}
	for i, clone := range clones {
		shell(".", "git clone -q ../.. "+clone)
		shell(clone, "make --silent release PLATFORMS=linux/"+runtime.GOARCH)
		text, err := os.ReadFile(filepath.Join(clone, "dist", "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = string(text)
	}
	if sums[0] != sums[1] || strings.Count(sums[0], "\n") != 3 {
		t.Errorf("the files differ:\n%s\n%s", sums[0], sums[1])
	}
	shell(clones[0], strings.ReplaceAll(string(lines[1]), "amd64", runtime.GOARCH))
	installed := filepath.Join(home, ".local", "bin", "drawbridge")
	version := strings.TrimSpace(shell(home, installed+" --version"))
	commit := strings.TrimSpace(shell(clones[0], "git rev-parse HEAD"))
	if built := shell(home, "go version -m "+installed); !strings.Contains(built, "vcs.revision="+commit) || !strings.Contains(built, "vcs.modified=false") {
		t.Errorf("%s was built from another commit than %s: %s", version, commit, built)
	}
	shell(home, installed+" demo >/dev/null && "+installed+"-relay --version")
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Log("the Debian package was not looked at: dpkg-deb is not here")
	} else {
		list := shell(clones[0], "dpkg-deb -x dist/*.deb root && root/usr/bin/drawbridge --version && dpkg-deb -f dist/*.deb Package Architecture")
		if !strings.Contains(list, version+"\nPackage: drawbridge\nArchitecture: "+runtime.GOARCH) {
			t.Errorf("the Debian package: %s", list)
		}
	}
	image, _ := filepath.Glob(filepath.Join(clones[0], "dist", "*.oci.tar"))
	if len(image) != 1 {
		t.Fatalf("images: %v", image)
	}
	checkImage(t, image[0], version)
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// checkImage reads an OCI archive as the image specification has it: each digest is that of its file, and the user is not root.
func checkImage(t *testing.T, name, version string) {
	t.Helper()
	blobs := untar(t, name, readFile(t, name))
	type pointer struct {
		Digest string
		Size   int
	}
	follow := func(p pointer, into any) []byte {
		t.Helper()
		data := blobs["blobs/"+strings.Replace(p.Digest, ":", "/", 1)]
		if got := fmt.Sprintf("sha256:%x", sha256.Sum256(data)); got != p.Digest || len(data) != p.Size {
			t.Fatalf("%s has the digest %s and %d bytes, want %d", p.Digest, got, len(data), p.Size)
		}
		if into != nil {
			if err := json.Unmarshal(data, into); err != nil {
				t.Fatal(err)
			}
		}
		return data
	}
	var index struct{ Manifests []pointer }
	if err := json.Unmarshal(blobs["index.json"], &index); err != nil || len(index.Manifests) != 1 {
		t.Fatalf("index.json: %v", err)
	}
	var docker []struct { // docker load reads this file alone
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(blobs["manifest.json"], &docker); err != nil || len(docker) != 1 || len(docker[0].RepoTags) != 1 || len(docker[0].Layers) != 2 {
		t.Fatalf("manifest.json: %+v, %v", docker, err)
	}
	for _, path := range append(docker[0].Layers, docker[0].Config) {
		if len(blobs[path]) == 0 {
			t.Errorf("manifest.json names %s, which is not there", path)
		}
	}
	var manifest struct {
		Config pointer
		Layers []pointer
	}
	follow(index.Manifests[0], &manifest)
	var config struct {
		OS, Architecture string
		Config           struct {
			User, WorkingDir string
			Entrypoint, Cmd  []string
		}
		Rootfs struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	follow(manifest.Config, &config)
	if got := fmt.Sprint(config.OS, config.Architecture, config.Config); got != "linux"+runtime.GOARCH+"{65532:65532 /data [/usr/bin/drawbridge] [serve]}" {
		t.Errorf("the image is %s", got)
	}
	root := t.TempDir()
	for i, layer := range manifest.Layers {
		unpacked, err := gzip.NewReader(bytes.NewReader(follow(layer, nil)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(unpacked)
		if err != nil || fmt.Sprintf("sha256:%x", sha256.Sum256(text)) != config.Rootfs.DiffIDs[i] {
			t.Errorf("layer %d does not have the digest that the image names: %v", i, err)
		}
		for name, data := range untar(t, name, text) {
			path := filepath.Join(root, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o700)); err != nil {
				t.Fatal(err)
			}
		}
	}
	out, err := exec.Command(filepath.Join(root, "usr/bin/drawbridge"), "--version").CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != version {
		t.Errorf("the image's program says %s: %v", out, err)
	}
	if roots := bytes.Count(readFile(t, filepath.Join(root, "etc/ssl/certs/ca-certificates.crt")), []byte("BEGIN CERTIFICATE")); roots < 100 {
		t.Errorf("%d certificate authorities", roots)
	}
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// untar returns the regular files of an archive by their names.
func untar(t *testing.T, name string, text []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(text)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if h.Typeflag == tar.TypeReg {
			if files[h.Name], err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
		}
	}
}
