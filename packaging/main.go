// Command packaging makes what is released: archives for Linux and macOS, Debian packages, container images and their checksums. It is a module
// of its own, so that no program depends on what it needs. The same commit and version of Go give the same bytes, whichever
// machine builds.
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	out := flag.String("out", "../dist", "folder for the files; it must not exist, or be empty")
	platforms := flag.String("platforms", "linux/amd64", "systems and processors, as Go names them, with commas between")
	flag.Parse()
	if err := run(*out, strings.Split(*platforms, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "packaging:", err)
		os.Exit(1)
	}
}

// release is one version, and where its files go.
type release struct {
	out, version string
	// at is the time of the commit, which every file gets.
	at time.Time
	// bash is the script that completes drawbridge in bash.
	bash []byte
}

// build is both programs for one platform.
type build struct{ system, processor, folder string }

// programs are what each package holds.
var programs = []string{"drawbridge", "drawbridge-relay"}

// pages of the repository go along.
var pages = []string{"README.md", "CHANGELOG.md", "SECURITY.md"}

func run(out string, platforms []string) error {
	if left, err := os.ReadDir(out); err == nil && len(left) > 0 {
		return fmt.Errorf("%s is not empty; remove the folder, or name another one: make release OUT=…", out)
	}
	work, err := os.MkdirTemp("", "packaging")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	var builds []build
	for _, platform := range platforms {
		system, processor, _ := strings.Cut(platform, "/")
		if system != "linux" && system != "darwin" || processor == "" {
			return fmt.Errorf("%q is not a platform of Drawbridge; write linux/amd64, linux/arm64, darwin/amd64 or darwin/arm64", platform)
		}
		builds = append(builds, build{system, processor, filepath.Join(work, system+"-"+processor)})
	}
	r := release{out: out}
	if err := r.identify(filepath.Join(work, "here")); err != nil {
		return err
	}
	for _, b := range builds { // before anything is written, which could make the clone another one than was committed
		if err := b.make(); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, b := range builds {
		if err := r.pack(b); err != nil {
			return errors.Join(fmt.Errorf("%s/%s: %w", b.system, b.processor, err), os.RemoveAll(out))
		}
	}
	return r.checksums()
}

// pack writes all files of a platform.
func (r release) pack(b build) error {
	if err := r.archive(b); err != nil || b.system != "linux" {
		return err
	}
	return errors.Join(r.debian(b), r.image(b))
}

// identify builds drawbridge for this machine, and asks it for its version and its completion.
func (r *release) identify(folder string) error {
	here := build{runtime.GOOS, runtime.GOARCH, folder}
	if err := here.make(); err != nil {
		return err
	}
	program := filepath.Join(here.folder, programs[0])
	said, err := exec.Command(program, "--version").Output()
	if err != nil {
		return fmt.Errorf("ask for the version: %w", err)
	}
	_, r.version, _ = strings.Cut(strings.TrimSpace(string(said)), " ")
	if strings.Contains(r.version, "dirty") || !strings.HasPrefix(r.version, "v") {
		return fmt.Errorf("the version is %q; release from a clone whose files are all in a commit", r.version)
	}
	if r.bash, err = exec.Command(program, "completion", "bash").Output(); err != nil {
		return fmt.Errorf("ask for the completion: %w", err)
	}
	said, err = exec.Command("git", "log", "-1", "--format=%ct").Output()
	if err != nil {
		return fmt.Errorf("ask git for the time of the commit: %w", err)
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(said)), 10, 64)
	r.at = time.Unix(seconds, 0).UTC()
	return err
}

// make builds the programs without cgo, so that they need no library.
func (b build) make() error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", b.folder+string(filepath.Separator), "./cmd/drawbridge", "./cmd/drawbridge-relay")
	cmd.Dir = ".."
	// What a person set with go env -w, or exported, must not change the bytes.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off", "GOOS="+b.system, "GOARCH="+b.processor, "GOAMD64=v1", "GOARM64=v8.0")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build for %s/%s: %w", b.system, b.processor, err)
	}
	return nil
}

// file is one file of a package.
type file struct {
	name string
	mode int64
	data []byte
}

// read returns the programs of a build, and files of the repository, by their base names.
func (b build) read(more ...string) (files []file, err error) {
	for _, name := range slices.Concat(programs, more) {
		f, source := file{name: name, mode: 0o644}, filepath.Join("..", name)
		if slices.Contains(programs, name) {
			f.mode, source = 0o755, filepath.Join(b.folder, name)
		}
		if f.data, err = os.ReadFile(source); err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// name is that of a file to release.
func (r release) name(b build, suffix string) string {
	return filepath.Join(r.out, fmt.Sprintf("drawbridge_%s_%s_%s%s", strings.TrimPrefix(r.version, "v"), b.system, b.processor, suffix))
}

// checksums writes SHA256SUMS as sha256sum --check reads it.
func (r release) checksums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var list strings.Builder
	for _, e := range entries {
		f, err := os.Open(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		sum := sha256.New()
		_, err = io.Copy(sum, f)
		f.Close()
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "%x  %s\n", sum.Sum(nil), e.Name())
	}
	fmt.Print(list.String())
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(list.String()), 0o644)
}
