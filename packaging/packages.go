package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // the format of Debian packages
	nfpmfiles "github.com/goreleaser/nfpm/v2/files"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// archive writes a .tar.gz with both programs, side by side with the README.
func (r release) archive(b build) error {
	files, err := b.read(pages...)
	if err != nil {
		return err
	}
	out, err := os.Create(r.name(b, ".tar.gz"))
	if err != nil {
		return err
	}
	defer out.Close()
	packed := gzip.NewWriter(out)
	return errors.Join(r.tar(packed, files, 0), packed.Close(), out.Close())
}

// tar writes files in their order, as owned by a user.
func (r release) tar(w io.Writer, files []file, owner int) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: r.at, Uid: owner, Gid: owner, Format: tar.FormatUSTAR}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.data); err != nil {
			return err
		}
	}
	return t.Close()
}

// debian writes a .deb.
func (r release) debian(b build) error {
	completion := filepath.Join(b.folder, "completion")
	if err := os.WriteFile(completion, r.bash, 0o644); err != nil {
		return err
	}
	info := &nfpm.Info{
		Name: "drawbridge", Arch: b.processor, Platform: b.system, Version: r.version, VersionSchema: "semver", MTime: r.at,
		Section: "net", Priority: "optional", Maintainer: "The developers of Drawbridge <drawbridge@localhost>",
		Description:  "bridge between what AI agents write and what may really happen\nA server checks each command of an AI agent against a list before anything runs.\nA relay runs the listed actions on a person's machine.",
		Overridables: nfpm.Overridables{Suggests: []string{"git"}},
	}
	add := func(from, to string, mode os.FileMode) {
		info.Contents = append(info.Contents, &nfpmfiles.Content{Source: from, Destination: to, FileInfo: &nfpmfiles.ContentFileInfo{Mode: mode, MTime: r.at, Owner: "root", Group: "root"}})
	}
	for _, name := range programs {
		add(filepath.Join(b.folder, name), "/usr/bin/"+name, 0o755)
	}
	for _, name := range pages {
		add(filepath.Join("..", name), "/usr/share/doc/drawbridge/"+name, 0o644)
	}
	add(completion, "/usr/share/bash-completion/completions/drawbridge", 0o644)
	info = nfpm.WithDefaults(info)
	if err := nfpm.PrepareForPackager(info, "deb"); err != nil {
		return err
	}
	packager, err := nfpm.Get("deb")
	if err != nil {
		return err
	}
	out, err := os.Create(r.name(b, ".deb"))
	if err != nil {
		return err
	}
	defer out.Close()
	return errors.Join(packager.Package(info, out), out.Close())
}

// imageUser is the user and the group of the image: a number that no system gives to a person.
const imageUser = 65532

// roots are the certificate authorities that Mozilla trusts, in PEM. One that it trusts for some certificates alone is left out.
func roots() []byte {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return text.Bytes()
}

// image writes a container image as an OCI archive. It holds both programs and the certificates that they check others by; /data is its user's own.
func (r release) image(b build) error {
	files, err := b.read()
	if err != nil {
		return err
	}
	var system, home bytes.Buffer
	for i := range files {
		files[i].name = path.Join("usr/bin", files[i].name)
	}
	files = append([]file{{"usr/", 0o755, nil}, {"usr/bin/", 0o755, nil}}, files...)
	files = append(files, file{"etc/", 0o755, nil}, file{"etc/ssl/", 0o755, nil}, file{"etc/ssl/certs/", 0o755, nil}, file{"etc/ssl/certs/ca-certificates.crt", 0o644, roots()}, file{"tmp/", 0o1777, nil})
	err = errors.Join(r.tar(&system, files, 0), r.tar(&home, []file{{"data/", 0o700, nil}}, imageUser))
	if err != nil {
		return err
	}
	image := mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
	for _, text := range [][]byte{system.Bytes(), home.Bytes()} {
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return err
		}
		if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: r.at}, CreatedBy: "packaging"}}); err != nil {
			return err
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = b.system, b.processor, v1.Time{Time: r.at}
	config.Config = v1.Config{
		User: fmt.Sprintf("%d:%d", imageUser, imageUser), WorkingDir: "/data", Env: []string{"PATH=/usr/bin", "HOME=/data"},
		Entrypoint: []string{"/usr/bin/drawbridge"}, Cmd: []string{"serve"},
		Labels: map[string]string{"org.opencontainers.image.title": "drawbridge", "org.opencontainers.image.version": r.version},
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return err
	}
	return r.ociArchive(image, r.name(b, ".oci.tar"))
}

// ociArchive writes an image as the files of an OCI layout in one tar file, beside the manifest.json without which docker load takes none.
func (r release) ociArchive(image v1.Image, name string) error {
	folder, err := os.MkdirTemp("", "oci")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	at, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	tag := "drawbridge:" + strings.TrimPrefix(r.version, "v")
	if err := at.AppendImage(image, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": tag})); err != nil {
		return err
	}
	manifest, err := dockerManifest(image, tag)
	if err != nil {
		return err
	}
	files := []file{{"manifest.json", 0o644, manifest}}
	err = filepath.WalkDir(folder, func(p string, d os.DirEntry, err error) error {
		if err != nil || p == folder {
			return err
		}
		f := file{name: strings.TrimPrefix(p, folder+"/"), mode: 0o644}
		if d.IsDir() {
			f.name, f.mode = f.name+"/", 0o755
		} else if f.data, err = os.ReadFile(p); err != nil {
			return err
		}
		files = append(files, f)
		return nil
	})
	if err != nil {
		return err
	}
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	defer out.Close()
	return errors.Join(r.tar(out, files, 0), out.Close())
}

// dockerManifest names the parts of an image, which lie where the OCI layout has them.
func dockerManifest(image v1.Image, tag string) ([]byte, error) {
	m, err := image.Manifest()
	if err != nil {
		return nil, err
	}
	at := func(h v1.Hash) string { return path.Join("blobs", h.Algorithm, h.Hex) }
	d := tarball.Descriptor{Config: at(m.Config.Digest), RepoTags: []string{tag}}
	for _, layer := range m.Layers {
		d.Layers = append(d.Layers, at(layer.Digest))
	}
	return json.Marshal(tarball.Manifest{d})
}
