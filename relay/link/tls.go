package link

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"
)

// maxCA bounds the certificates of a bridge's authority, in bytes of PEM; they are kept in the identity.
const maxCA = 32 << 10

// ReadCA reads the certificates (PEM) of the authority that signs the certificate of a bridge's address, for those that are not
// signed by one that the system knows.
func ReadCA(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read certificates: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxCA+1))
	if err != nil {
		return "", fmt.Errorf("read certificates: %w", err)
	}
	// Only what is public is kept, whatever else stands in the file.
	text := ""
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			text += string(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}))
		}
	}
	if _, err := roots(text); err != nil || text == "" || len(data) > maxCA {
		return "", fmt.Errorf("%s must hold certificates in PEM, at most %d KiB; give the file of the authority that signed the bridge's certificate", path, maxCA>>10)
	}
	return text, nil
}

// roots are the certificates that vouch for a bridge; nil are the system's.
func roots(ca string) (*x509.CertPool, error) {
	if ca == "" {
		return nil, nil //nolint:nilnil // the zero value of what takes it
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(ca)) {
		return nil, errors.New("a certificate in it is damaged")
	}
	return pool, nil
}

// SetCA changes which authority vouches for the address of the bridge that was joined, from the next connection on. An empty
// one stands for those that the system knows.
func SetCA(path, ca string) error {
	_, err := change(path, func(i Identity) (Identity, error) {
		_, err := roots(ca)
		i.CA = ca
		return i, err
	})
	return err
}

// newClient dials the bridge as the environment of this process says, proxies included. It follows no redirect. Where there are
// certificates in ca, those vouch for the bridge and no others.
func newClient(ca string) (*http.Client, error) {
	pool, err := roots(ca)
	if err != nil {
		return nil, err
	}
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSClientConfig:       &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:   10 * time.Second,
			ResponseHeaderTimeout: 20 * time.Second,
			DisableKeepAlives:     true,
			MaxIdleConns:          1,
			// A WebSocket needs HTTP/1.1; with no map of protocols the transport offers nothing else.
			ForceAttemptHTTP2: false,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// unreached says why there is no connection, and what to do when it is for a certificate.
func unreached(err error) error {
	var authority x509.UnknownAuthorityError
	if errors.As(err, &authority) {
		return fmt.Errorf("the bridge cannot be reached: %w; if an authority of your own signed its certificate, name that with --ca FILE (once joined: drawbridge-relay keys ca FILE)", err)
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return errors.New("the bridge cannot be reached: no program answers at that address; start the bridge with `drawbridge serve`, or correct the address")
	}
	var named *net.DNSError
	if errors.As(err, &named) {
		return fmt.Errorf("the bridge cannot be reached: the name %q is not known here; correct the address, or look at this machine's network", named.Name)
	}
	return fmt.Errorf("the bridge cannot be reached: %w", err)
}
