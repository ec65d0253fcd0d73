package yamlconf

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"drawbridge/internal/trust"
)

// schemaFolder is beside the configuration files.
const schemaFolder = ".schema"

// KeepSchema writes the JSON schema of a configuration file beside it, for editors that speak to yaml-language-server, and returns the line with
// which the file names its schema. A schema of an earlier version is replaced. A folder that others can change is an error.
func KeepSchema(file, schema string) (line string, err error) {
	name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)) + ".json"
	folder, err := filepath.Abs(filepath.Join(filepath.Dir(file), schemaFolder))
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	if err := trust.Folders(folder); err != nil {
		return "", err
	}
	fresh, err := os.CreateTemp(folder, name)
	if err != nil {
		return "", err
	}
	_, err = fresh.WriteString(schema)
	if err = cmp.Or(err, fresh.Chmod(0o644), fresh.Close()); err == nil {
		err = os.Rename(fresh.Name(), filepath.Join(folder, name))
	}
	if err != nil {
		_ = os.Remove(fresh.Name())
		return "", err
	}
	return "# yaml-language-server: $schema=" + schemaFolder + "/" + name + "\n", nil
}
