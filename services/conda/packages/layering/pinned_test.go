package layering_test

import "slipway.dev/services/conda/packages/layering"

// pinnedLayer is a layer whose bytes must not change.
type pinnedLayer struct {
	file           string
	compression    layering.Compression
	digest, diffID string
}

func pinned() []pinnedLayer {
	return []pinnedLayer{
		{"_openmp_mutex-4.5-2_gnu.tar.bz2", layering.Gzip, "f4ccf2cd874155ad0b7713236522337487827ec6804b3faee9d7f708da9c56f5", "9a263fc4d3af2b1dbbd370aa0d42e9ae147e54885d46c2bd973eee6c5c3c6e11"},
		{"archspec-0.2.2-pyhd8ed1ab_0.conda", layering.Gzip, "5f8e2e8154445df010765678d2b8105119e9dcb5f06a5119b75be2c4c0d89fd0", "c5612761415020358736898de47b9607a3e649d5bcb162630bf56631b0fa1b8e"},
		{"c-ares-1.21.0-h31becfc_0.conda", layering.Gzip, "b1e98e5f6e0f930ca95f31137765606027a796b60ac9e61cc1c247a1cc966500", "057cb8cbcb973dd66681116237f6e063bf6937f5cd70d4fc44ec9fc269c5d769"},
		{"cffi-1.16.0-py310hce94938_0.conda", layering.Gzip, "a7ac86fb11db90b7f4f9f6d3091be485dc7b00a811b617b8108e898331b0063e", "6f5c1966899808b18e8f7b1e494c161a9725554ebfa85157f44777eb5c1154d1"},
		{"libcurl-8.4.0-h4e8248e_0.conda", layering.Gzip, "76ec712a3f3f2f0195ae253ddc5c6fc00bcd4d0e69cf8138998ba3b38141343e", "b9782394fa38a9b417ff5ad1750df7f3b70203c29dbc62f014e8ef417b364a2b"},
		{"libedit-3.1.20191231-he28a2e2_2.tar.bz2", layering.Gzip, "3e52b221f93f22e3552885c5e1ba132626500953c2e82518f46570dd10453307", "ab7f5a9a06f83e76851d416590572dc7bd9b85f30635fb00e8ddc4da49867cba"},
		{"libzlib-1.2.13-h31becfc_5.conda", layering.Gzip, "ee1b17b652d02e76251919929b31635f94bacf5359e3ddd1650b0dd6a037262e", "d6d5b4a72e0d1694fb9ac3adee63bd280f978bc9591ca86f58adf426d900ea98"},
		{"lz4-c-1.9.4-hd600fc2_0.conda", layering.Gzip, "c3ae26520cc177435a115f782991e5c98c8fbb135365e9d9aae7944833521a8f", "7d09deb0b70d29a5c764b0a13e224738dea5ac39096353bda4dfcc047dc980d5"},
		{"mock-2.0.0-py37_1000.tar.bz2", layering.Gzip, "735a4b2e351fa8ca340f1d149740baa3cc9649a4351257571d7c1155e0777594", "53da92823176a2bd3509cd5fd138b5483e3bbf9504a80e60d190b2ca7a9c8674"},
		{"requests-2.31.0-pyhd8ed1ab_0.conda", layering.Gzip, "7c5c9357eee77f32566c30a387c1aa98352986dd188d29349fc7b591be45db35", "50514a33c451cca29c5659ff69b12136759c3ff1a89c5be6602309655de3a6b0"},
		{"requests-2.31.0-pyhd8ed1ab_0.conda", layering.Zstd, "e49e77cacdd915ac6b11bd1dd4871a8a8b186257d170dc5f7dd0c420c039fd37", "50514a33c451cca29c5659ff69b12136759c3ff1a89c5be6602309655de3a6b0"},
	}
}
