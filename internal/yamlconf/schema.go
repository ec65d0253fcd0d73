package yamlconf

import (
	"os"
	"path/filepath"
	"strings"
)

// schemaFolder is beside the configuration files. Its files are written anew by each version of the programs.
const schemaFolder = ".schema"

// KeepSchema writes the JSON schema of a configuration file beside it, for editors that speak to yaml-language-server, and returns the line with
// which the file names its schema. Twice is fine.
func KeepSchema(file, schema string) (line string, err error) {
	name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)) + ".json"
	folder := filepath.Join(filepath.Dir(file), schemaFolder)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	return "# yaml-language-server: $schema=" + schemaFolder + "/" + name + "\n", os.WriteFile(filepath.Join(folder, name), []byte(schema), 0o644)
}
