package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// frontName is the name under which the bridge is reached; only the proxy knows where that is.
const frontName = "bridge.test"

// setFront is "front": it puts a server with TLS before the bridge, which is called bridge.test, and an HTTP proxy before that. The
// authority's certificate comes to ca.pem, the proxy's address into $PROXY, and what it was asked for into proxy.log.
func setFront(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: front")
	}
	bridge, err := url.Parse(ts.Getenv("BRIDGE"))
	ts.Check(err)
	front := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(bridge) },
		ErrorLog: log.New(io.Discard, "", 0),
	})
	cert, ca := frontCertificate(ts)
	front.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	front.Config.ErrorLog = log.New(io.Discard, "", 0)
	front.StartTLS()
	ts.Defer(front.Close)
	ts.Check(os.WriteFile(ts.MkAbs("ca.pem"), ca, 0o600))
	proxy := httptest.NewServer(&connectProxy{to: front.Listener.Addr().String(), log: ts.MkAbs("proxy.log")})
	ts.Defer(proxy.Close)
	ts.Setenv("PROXY", proxy.URL)
}

// connectProxy connects whoever asks for bridge.test:443 with to, and nobody else.
type connectProxy struct {
	to, log string

	mu sync.Mutex // held while the log is written
}

// ServeHTTP implements http.Handler.
func (p *connectProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.note(r)
	if r.Method != http.MethodConnect || r.Host != frontName+":443" {
		http.Error(w, "not for us", http.StatusForbidden)
		return
	}
	far, err := net.Dial("tcp", p.to)
	if err != nil {
		http.Error(w, "gone", http.StatusBadGateway)
		return
	}
	near, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = far.Close()
		return
	}
	_, _ = io.WriteString(near, "HTTP/1.1 200 Connection established\r\n\r\n")
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		go func() { // ends with either end
			_, _ = io.Copy(way[0], way[1])
			_ = near.Close()
			_ = far.Close()
		}()
	}
}

func (p *connectProxy) note(r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	file, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return // the script misses the line
	}
	defer file.Close()
	fmt.Fprintf(file, "%s %s\n", r.Method, r.Host)
}

// frontCertificate is signed by an authority that no system knows, which comes with it in PEM.
func frontCertificate(ts *testscript.TestScript) (tls.Certificate, []byte) {
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		ts.Check(err)
		return k
	}
	from, until := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "our own authority"}, NotBefore: from, NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: frontName}, DNSNames: []string{frontName}, NotBefore: from, NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature}
	caKey, leafKey := key(), key()
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	ts.Check(err)
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, leafKey.Public(), caKey)
	ts.Check(err)
	return tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: leafKey}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})
}
