"""The commands `inbox store …`: maintenance of a whole store."""
