package store

import "drawbridge/bridge"

func scanYes(row scanner) (y bridge.Yes, err error) {
	err = row.Scan(&y.Root, &y.Target, jsonText{&y.Effect}, microTime{&y.At})
	return y, err
}
