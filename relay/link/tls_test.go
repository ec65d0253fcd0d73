package link_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/rs/zerolog"

	"drawbridge/relay/link"
	"drawbridge/relay/wire"
)

// certify returns a certificate for this machine that is signed by an authority of its own, and that authority's in PEM.
func certify(t *testing.T) (leaf tls.Certificate, ca string) {
	t.Helper()
	sign := func(name string, parent *x509.Certificate, by *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
		if parent == nil {
			parent, by, c.IsCA, c.BasicConstraintsValid, c.KeyUsage = c, key, true, true, x509.KeyUsageCertSign
		} else {
			c.IPAddresses, c.KeyUsage = []net.IP{net.IPv4(127, 0, 0, 1)}, x509.KeyUsageDigitalSignature
		}
		der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), by)
		if err != nil {
			t.Fatal(err)
		}
		return der, key
	}
	root, rootKey := sign("authority", nil, nil)
	parent, err := x509.ParseCertificate(root)
	if err != nil {
		t.Fatal(err)
	}
	der, key := sign("bridge", parent, rootKey)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root}))
}

// secured is a bridge behind TLS that asks every relay that gets in for one action.
func secured(t *testing.T, cert tls.Certificate) (url string, outcomes <-chan wire.Outcome) {
	t.Helper()
	done := make(chan wire.Outcome, 8)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{wire.Subprotocol}})
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = ws.CloseNow() }()
		p := &peer{t: t, ws: ws, key: key("bridge")}
		if err := p.let(); err != nil {
			return // the test is over
		}
		if err := p.frame(wire.Frame{Request: sign(t, p.key, order("op-1", "listed"))}); err != nil {
			t.Error(err)
			return
		}
		if f, err := p.read(); err == nil && f.Outcome != nil {
			done <- *f.Outcome
		}
		_, _ = p.read() // until the relay goes
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, done
}

func TestOwnAuthority(t *testing.T) {
	t.Parallel()
	cert, ca := certify(t)
	_, otherCA := certify(t)
	url, outcomes := secured(t, cert)
	path := filepath.Join(t.TempDir(), link.DefaultFile)
	save := func(ca string) {
		err := link.Save(path, link.Identity{Bridge: url, CA: ca, Relay: "laptop", Key: key("relay"), Pins: []link.Pin{{Key: public(key("bridge")), Since: time.Now()}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	run := func(log io.Writer) (stop func()) {
		l, err := link.New(link.Options{Identity: path, Handler: newHandler(), Log: zerolog.New(log)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		return func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	// Without it, or with another one, the relay says what to do and no handshake of ours begins.
	for _, wrong := range []string{"", otherCA} {
		save(wrong)
		said := make(chan string, 64)
		stop := run(writer(func(line string) {
			select {
			case said <- line:
			default:
			}
		}))
		if line := <-said; !strings.Contains(line, "signed by unknown authority") || !strings.Contains(line, "--ca FILE") {
			t.Errorf("it says %s", line)
		}
		stop()
	}
	// It is changed in the identity, and the next connection counts on it.
	if err := link.SetCA(path, ca); err != nil {
		t.Fatal(err)
	}
	if i, err := link.Load(path); err != nil || i.CA != ca || i.Relay != "laptop" {
		t.Errorf("%v, %v", i, err)
	}
	stop := run(io.Discard)
	defer stop()
	if out := <-outcomes; out.Status != wire.StatusExecuted {
		t.Errorf("%+v", out)
	}
}

func TestReadCA(t *testing.T) {
	t.Parallel()
	_, ca := certify(t)
	const secret = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n-----END PRIVATE KEY-----\n"
	dir := t.TempDir()
	for text, want := range map[string]string{
		ca: ca, "# ours\n" + ca + secret: ca, ca + ca: ca + ca,
		"": "", secret: "", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n": "", strings.Repeat(ca, 100): "",
	} {
		path := filepath.Join(dir, "ca.pem")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := link.ReadCA(path)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%.60q is read as %.60q, %v", text, got, err)
		}
	}
	if _, err := link.ReadCA(filepath.Join(dir, "none")); err == nil {
		t.Error("a file that is not there is read")
	}
	if err := link.SetCA(filepath.Join(dir, "none"), ca); err == nil {
		t.Error("set where nobody has joined")
	}
}
