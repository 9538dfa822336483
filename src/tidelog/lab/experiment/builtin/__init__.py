"""The experiments that come with Tidelog, as files like those of users."""
