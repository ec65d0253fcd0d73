package store

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"drawbridge/bridge"
)

// parseAddress reads an address, whose scheme may have capitals, and how many connections it asks for. The settings of the pool are not in
// the config: a server knows none of them.
func parseAddress(address string) (config *pgx.ConnConfig, pool int32, err error) {
	if config, err = pgx.ParseConfig(lowerScheme(address)); err != nil {
		return nil, 0, errAddress
	}
	if pool, err = poolSize(config); err != nil {
		return nil, 0, err
	}
	maps.DeleteFunc(config.RuntimeParams, func(name, _ string) bool { return strings.HasPrefix(name, "pool_") })
	return config, pool, nil
}

func lowerScheme(address string) string {
	scheme, rest, _ := strings.Cut(address, "://")
	return strings.ToLower(scheme) + "://" + rest
}

// connectTrouble says why a server could not be asked, and what to do about it.
func connectTrouble(err error, c *pgx.ConnConfig) error {
	kind, words := bridge.Unavailable, connectWords(err, c)
	if words == "" {
		words = "cannot be reached; check that PostgreSQL runs, and that host, port, user and password are right"
	}
	return &bridge.Error{Kind: kind, Cause: scrubbed(err, c), Message: fmt.Sprintf("the database at %s %s", place(c), words)}
}

func connectWords(err error, c *pgx.ConnConfig) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return refusalWords(pg, c)
	}
	var name *net.DNSError
	var unknown x509.UnknownAuthorityError
	var wrongHost x509.HostnameError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &name):
		return fmt.Sprintf("cannot be reached, because the host name %+q is not known here; correct the host in the address", c.Host)
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		return fmt.Sprintf("cannot be reached, because no program listens at port %d there; start PostgreSQL, or correct host and port in the address", c.Port)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "cannot be reached, because no network leads there; correct the host in the address, or look at the network"
	case strings.Contains(err.Error(), "server refused TLS"):
		return "takes no encrypted connections; set up TLS at the server, or write sslmode=prefer in the address where the network is trusted"
	case errors.As(err, &unknown), errors.As(err, &wrongHost):
		return "shows a certificate that this machine does not trust for that host; correct the host, or give the authority's certificate with sslrootcert=FILE in the address"
	case errors.As(err, &record):
		return fmt.Sprintf("is not PostgreSQL: another program listens at port %d; correct the port in the address", c.Port)
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return "did not answer in time; correct host and port in the address, or look at the network and its firewalls"
	}
	return ""
}

// refusalWords says why a server let nobody in (PostgreSQL's manual, appendix A).
func refusalWords(pg *pgconn.PgError, c *pgx.ConnConfig) string {
	switch pg.Code {
	case "28P01":
		return fmt.Sprintf("refuses the password of user %+q; correct user and password in the address", c.User)
	case "28000":
		return fmt.Sprintf("does not let user %+q in; correct the user in the address, make it with createuser, or allow it in pg_hba.conf", c.User)
	case "3D000":
		return fmt.Sprintf("cannot be opened, because the server has no database %+q; make it with createdb, or correct the name in the address", c.Database)
	case "42501":
		return fmt.Sprintf("does not let user %+q make tables; make that user the owner of the database", c.User)
	case "42704", "22023":
		return "refuses a setting in the address; correct the settings after the ? in the address"
	case "53300":
		return "has no connection free; end other clients, or raise max_connections"
	case "57P03":
		return "is starting or stopping; try again in a moment"
	}
	return ""
}
