package config

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// database checks a path or an address as far as it can be without a disk or a server.
// An address may hold a password, so no value is shown.
func (c *checker) database(value string) {
	c.required("database", value)
	lower := strings.ToLower(value)
	scheme, _, isURL := strings.Cut(lower, "://")
	const example = "name a SQLite file, such as drawbridge.db, or write postgres://user@host:5432/database"
	switch {
	case value == "":
	case strings.ContainsFunc(value, unicode.IsControl):
		c.problem("database", "", "holds a control character, such as a line break", "write the path or address in one line, without \\n or \\0")
	case strings.TrimSpace(value) != value:
		c.problem("database", "", "begins or ends with a blank", "remove the blank")
	case isPostgres(lower):
		c.postgres(value)
	case isURL:
		c.problem("database", "", fmt.Sprintf("has the unknown scheme %+.40q", scheme+"://"), example)
	case strings.HasPrefix(lower, "postgres:"), strings.HasPrefix(lower, "postgresql:"), strings.HasPrefix(lower, "postgres//"), strings.HasPrefix(lower, "postgresql//"):
		c.problem("database", "", "is not a PostgreSQL address, because postgres is not followed by ://", "write postgres://user@host:5432/database")
	case strings.HasPrefix(lower, "file:"), strings.HasPrefix(value, ":"), strings.ContainsAny(value, "?"):
		c.problem("database", "", "is neither a plain file name nor a PostgreSQL address", example)
	default:
		c.tilde("database", value)
	}
}

// tilde refuses a path that only a shell would expand: a folder of that name is not there.
func (c *checker) tilde(key, value string) {
	if first, _, _ := strings.Cut(value, "/"); strings.HasPrefix(first, "~") {
		c.problem(key, "", "begins with ~, which only a shell replaces by a home folder", "write the whole path, such as /home/you/"+filepath.Base(value))
	}
}

// path checks the text of a path; empty is accepted, required checks that.
func (c *checker) path(key, value string) {
	if strings.ContainsFunc(value, unicode.IsControl) {
		c.problem(key, value, "holds a control character, such as a line break", "write the path in one line, without \\n or \\0")
		return
	}
	c.tilde(key, value)
}

func isPostgres(lower string) bool {
	return strings.HasPrefix(lower, "postgres://") || strings.HasPrefix(lower, "postgresql://")
}

// sslmodes are the values of sslmode (PostgreSQL's manual, 34.1.2).
var sslmodes = []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}

// postgres checks an address as far as it can be without a server.
func (c *checker) postgres(value string) {
	if what, remedy := wrongAddress(value); what != "" {
		c.problem("database", "", what, remedy+", with its password by reference: ${DATABASE_URL} or ${file:database.url}")
		return
	}
	u, err := url.Parse(value)
	if err != nil {
		return // wrongAddress has said so
	}
	_, secret := u.User.Password()
	if (secret || u.Query().Has("password")) && !c.file.ByReference("database") {
		c.problem("database", "", "holds a password in the file itself", "put the address into the environment or a file of its own and write ${DATABASE_URL} or ${file:database.url}")
	}
}

// wrongAddress says what is wrong with an address, without its values, and what to do; "" when nothing is.
func wrongAddress(value string) (what, remedy string) {
	const form = "write postgres://user@host:5432/database"
	u, err := url.Parse(value)
	switch {
	case err != nil && strings.Contains(err.Error(), "invalid port"):
		return "is not a PostgreSQL address, because its port is not a number", form + ", and characters of the password such as / and # in the form %2F and %23"
	case err != nil:
		return "is not a PostgreSQL address, because it is not well encoded", "write characters of user and password such as @, /, : and % in the form %40, %2F, %3A and %25: postgres://user@host:5432/database"
	case strings.Trim(u.Path, "/") == "" && !u.Query().Has("dbname"):
		return "is not a PostgreSQL address, because it names no database", form
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "is not a PostgreSQL address, because its port is not a number from 1 to 65535", form
		}
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "is not a PostgreSQL address, because the part after its ? is not well encoded", form + "?sslmode=require"
	}
	if mode, there := query["sslmode"]; there && !slices.Contains(sslmodes, mode[0]) {
		return fmt.Sprintf("has the unknown sslmode %+.40q", mode[0]), "use one of " + strings.Join(sslmodes, ", ") + ": postgres://user@host:5432/database?sslmode=require"
	}
	return "", ""
}
